"""Object stores: bytes under keys, in a folder or in a bucket of an S3-compatible service."""
