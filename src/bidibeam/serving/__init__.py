"""The HTTP server: requests that arrive together are searched together by one worker."""
