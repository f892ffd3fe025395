-- No lock: the primary key is the fence. The run's row must be there; a session may have been erased. Nothing follows a terminal event: of a run
-- that has ended every seq counts as taken, as seq 0 is.
insert into {schema}.events (run_id, seq, type, data, first_index, frames, at)
select $1, case when r.ended_at is null then $2 else 0 end, $3, $4, $5, $6, clock_timestamp() from {schema}.runs r where r.run_id = $1
returning {schema}.millis_1(at)
