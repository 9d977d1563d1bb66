"""What is worth interpreting: the words that definitions can reach."""
