select t.run_id from unnest($1::uuid[]) t (run_id) left join {schema}.runs r using (run_id) where r.run_id is null or r.ended_at is not null
