-- What the running attempt of a job has asked the model so far, as its worker last told of it: what is known of
-- its cost should the worker be lost. Null for every other record.
alter table raw_data add column attempt_usage jsonb;

-- The model that a picture was described with, by the name by which it was asked for (described_by is the name
-- that its server gave); null for those described until now.
alter table images add column requested_model text;
