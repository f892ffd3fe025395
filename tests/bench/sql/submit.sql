-- The call that the api makes for a submission.
select * from sandlog.submit_1(null, null, null, 'echo', null, 'namespace', '{DATA}'::jsonb, '{}', '{}', '{}', '{}');
