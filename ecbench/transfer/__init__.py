"""What encoder-cache and KV workers share: descriptor arrays and their writers, pools, transfers in flight."""
