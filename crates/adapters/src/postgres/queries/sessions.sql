-- Whose they are is asked by equality: the index on users serves no `is not distinct from`, and a user's list must not read everybody's.
select s.session, s.session_id, s.agent_id, s.user_id, {schema}.millis_1(s.created_at), {schema}.millis_1(s.updated_at), s.runs
from {schema}.sessions s
where ($1::text is null or s.session_id = $1)
    and ($2::text is null or s.user_id = $2)
    and ($3::text is null or s.agent_id = $3)
    and ($4::uuid is null or s.session < $4)
    and (not $5::boolean or case when $6::text is null then s.user_id is null else s.user_id = $6 end)
order by s.session desc limit $7
