"""What runs inside the user's process: it attaches to torch, tells the probes what happens, and ends the run."""
