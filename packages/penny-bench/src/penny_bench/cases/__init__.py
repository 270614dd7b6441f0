"""What the workloads ask, and how answers are judged: content written for this package, one folder a kind."""
