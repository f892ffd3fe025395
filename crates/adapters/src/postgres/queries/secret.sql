-- None in a schema of the release before.
select to_jsonb(d) ->> 'secret' from {schema}.deployment d
