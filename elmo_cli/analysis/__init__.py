"""What the vectors say."""
