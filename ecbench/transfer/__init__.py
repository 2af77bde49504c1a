"""What encoder-cache and KV workers share: the host region, descriptor arrays, their writers, transfers in flight."""
