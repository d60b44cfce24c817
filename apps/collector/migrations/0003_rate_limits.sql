-- What each caller has used of a limit within its minute, for all processes together. The columns are
-- those that rate-limiter-flexible writes. Unlogged: after a crash counting may start afresh.
create unlogged table rate_limits (
  key varchar(255) primary key,
  points integer not null default 0,
  expire bigint
);
