-- What this build needs and the schema has not. No row: it fits. First what is not there at all (rank 0), then tables that differ (rank 1). What
-- a table has besides does not matter, unless nothing can be inserted without it.
with tables (name, columns, keys) as (values
    ('events', 'run_id uuid,seq int4,type text,data jsonb,first_index int4,frames int4,at timestamptz', '{"run_id,seq"}'::text[]),
    ('sessions', 'session uuid,session_id text,agent_id text,user_id text,created_at timestamptz,updated_at timestamptz,runs int8,last_run uuid',
        '{session,session_id}'),
    ('runs', 'run_id uuid,session uuid,agent_id text,kind text,status text,attempt int4,placed bool,cancel_requested bool,created_at timestamptz,'
        || 'started_at timestamptz,ended_at timestamptz', '{run_id}'),
    ('bindings', 'session uuid,unended int4,kind text,since timestamptz,epoch int8,claim_id uuid,run_id uuid,worker text,lease_until timestamptz,'
        || 'renewed bool,idle_claims int4,retry_at timestamptz,host text,sandbox text,checkpoint text,conversation text,visited text[]', '{session}'),
    ('hosts', 'host text,kind text,label text,seen_at timestamptz', '{host}'),
    ('attachments', 'run_id uuid,n int4,name text,media_type text,sha256 text,body bytea', '{"run_id,n"}'),
    ('idempotency_keys', 'key text,agent_id text,user_id text,session_id text,fingerprint bytea,run_id uuid', '{key}'),
    ('erasures', 'session uuid,host text,at timestamptz', '{"session,host"}'),
    ('erased_runs', 'run_id uuid,at timestamptz', '{run_id}'),
    ('deployment', 'one bool,id uuid', '{one}'),
    ('migrations', 'version int4,at timestamptz', '{version}'),
    ('run_counts', 'shard int4,pending int8,running int8,completed int8,error int8,cancelled int8', '{shard}')
), functions (name) as (
    select unnest('{submit_2,claim_1,place_1,finish_1,cancel_1,heartbeat_1,hand_over_1,erase_1,requeue_1,upkeep_2}'::text[])
), found as (
    select t.*, to_regclass('{schema}.' || t.name) as id from tables t
), columns as (
    select f.name, f.id, c.n, split_part(c.text, ' ', 1) as col, split_part(c.text, ' ', 2)::regtype as type
    from found f cross join lateral unnest(string_to_array(f.columns, ',')) with ordinality c (text, n) where f.id is not null
)
select 0 as rank, f.name, 'is not there' as what, 0 as n from found f where f.id is null
union all
select 0, f.name || '()', 'is not there', 0 from functions f
where not exists (select from pg_proc p where p.pronamespace = to_regnamespace('{schema}') and p.proname = f.name)
union all
select 1, c.name, case when a.attname is null then 'has no column ' || c.col
    else 'has ' || c.col || ' as ' || format_type(a.atttypid, null) || ', not as ' || format_type(c.type, null) end, c.n::int
from columns c left join pg_attribute a on a.attrelid = c.id and a.attname = c.col and a.attnum > 0 and not a.attisdropped
where a.atttypid is distinct from c.type
union all
select 1, f.name, 'has no key (' || k.text || ')', 100
from found f cross join lateral unnest(f.keys) k (text)
where f.id is not null and not exists (
    select from pg_index i
    where i.indrelid = f.id and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null and (
        select array_agg(a.attname::text order by a.attname) from pg_attribute a where a.attrelid = f.id and a.attnum = any (i.indkey)
    ) = (select array_agg(x order by x) from unnest(string_to_array(k.text, ',')) x))
union all
select 1, f.name, 'needs a value for ' || a.attname || ', which this build does not know', 200
from found f join pg_attribute a on a.attrelid = f.id and a.attnum > 0 and not a.attisdropped and a.attnotnull and not a.atthasdef
    and a.attidentity = '' and a.attgenerated = ''
where not exists (select from columns c where c.id = f.id and c.col = a.attname)
order by rank, name, n
