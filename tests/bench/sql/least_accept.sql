-- The least that an accept could be: a session, a run and an event in one statement, with no rule kept.
with s as (insert into bench.sessions values (gen_random_uuid(), 'echo', now()) returning id),
r as (insert into bench.runs select gen_random_uuid(), id, 'PENDING', now() from s returning id)
insert into bench.events select id, 0, 'run.submitted', '{DATA}'::jsonb from r;
