-- A job that went back to the queue because of a failing server is not claimed again before this time, so that other
-- jobs try the server first.
alter table raw_data add column retry_at timestamptz;
