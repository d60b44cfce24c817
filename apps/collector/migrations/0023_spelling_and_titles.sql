-- Types of property are kept in one spelling from now on, the one in which filters look for them: this writes those that
-- are there as `spellAlike` does (src/text/normalise.ts), step for step. Each spelling is looked at once, and few differ.
with visible as (
  select name, regexp_replace(name,
    '[\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f'
    '\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f'
    '\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]', '', 'g') as spelling
  from (select distinct property_type as name from property_listings) as kind
  where name is not null
), letters as (
  select name, normalize(regexp_replace(regexp_replace(normalize(spelling, NFD),
    '(?<=[\u0400-\u052f][\u0300-\u036f]*)[\u0300\u0301]', '', 'g'),
    '(?<=\u0435)\u0308', '', 'g'), NFC) as spelling
  from visible
), spelled as materialized (
  select name, btrim(regexp_replace(regexp_replace(regexp_replace(spelling,
    '(?<=[[:alpha:]])[''\u2019\u02bc\u2018\u201b\u02b9\u02bb\u02bd\u2032\u0060\u00b4\uff07]+(?=[[:alpha:]])', '''', 'g'),
    '[\u058a\u05be\u1400\u1806\u2010-\u2015\u2212\u2e17\u2e1a\u2e3a\u2e3b\u2e40\u2e5d\u301c\u3030\u30a0\ufe31\ufe32'
    '\ufe58\ufe63\uff0d\U00010d6e\U00010ead]', '-', 'g'),
    '[\u0009-\u000d\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+', ' ', 'g')) as spelling
  from letters
)
update property_listings set property_type = nullif(spelling, '')
from spelled where property_type = name and spelling <> name;

-- Who named the title of a snapshot, "payload" or "model": that the source does not name it any more is a change. Null
-- where nobody did, and in snapshots from before.
alter table listing_snapshots add column title_by text;
