"""What readers and writers of all formats share."""
