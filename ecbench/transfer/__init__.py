"""What encoder-cache and KV workers share: descriptor arrays, their writers and pool, stream and event pools, transfers in flight."""
