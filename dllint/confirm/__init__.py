"""``dllint confirm``: run a training script under probes for a bounded number of steps, and let the run decide.

``launch`` starts the user's own command with ``injected`` first on its path; that attaches ``inside`` to torch, which
tells the ``probes`` what the script does. What they find out comes back as ``evidence``, and ``verdicts`` joins it with
the findings of the linter. Only ``inside`` and ``probes`` import torch.
"""
