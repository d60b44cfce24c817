-- No query reads this index of jobs whose worker was lost. Each insert and update of a payload checked its condition.
drop index concurrently if exists raw_data_rescued;
