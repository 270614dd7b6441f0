"""The workload files that come with the package; `penny_bench.workload` reads them."""
