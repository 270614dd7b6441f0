"""``tiny-next``: the Flash-Next architecture in miniature."""
