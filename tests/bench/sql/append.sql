\set seq :seq + 1
insert into sandlog.events (run_id, seq, type, data, first_index, frames, at)
select r.run_id, case when r.ended_at is null then :seq else 0 end, 'output', '{DATA}'::jsonb, :seq * {FRAMES}, {FRAMES}, clock_timestamp()
from sandlog.runs r where r.run_id = (select run_id from bench.appended where client = :client_id) returning sandlog.millis_1(at);
