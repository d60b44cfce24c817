-- From when on the address of a picture that could not be had may be asked again, although the payload that
-- names it is unchanged; null where asking again would be of no use. Which of the earlier failures were for
-- a moment was not kept, so each is tried once more.
alter table listing_images add column retry_at timestamptz;
update listing_images set retry_at = now() where url is not null and error is not null;

-- The prompt that a picture was described with, beside the model (described_by); until now there was one.
alter table images add column prompt_version text;
update images set prompt_version = 'image-description.v1' where described_by is not null;
