\set seq :seq + 1
insert into bench.plain values (:client_id, :seq, '{DATA}'::jsonb);
