-- The call that the api makes for a submission.
select * from sandlog.submit_2(null, null, null, 'echo', null, 'namespace', '{DATA}'::jsonb, '{}', '{}', '{}', '{}', 100000000, true);
