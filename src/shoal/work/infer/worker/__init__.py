"""What runs in a worker of an inference: reading, preparing, predicting and writing, all in one process."""
