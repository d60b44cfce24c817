-- In batches, while the system runs; a repeated run continues.
call rename_listing_origins();
