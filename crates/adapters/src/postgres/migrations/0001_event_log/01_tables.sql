-- The log, its projections, and small state. {schema} is the deployment's schema, put in as text: a search_path would be session state.
create schema if not exists {schema};

-- The facts. Run ids are UUIDv7, so a range of ids is a range of time and retention drops partitions.
create table if not exists {schema}.events (
    run_id uuid not null,
    seq int not null,
    type text not null,
    data jsonb not null,
    first_index int not null,
    frames int not null,
    at timestamptz not null,
    primary key (run_id, seq)
) partition by range (run_id);
-- Viewers ask by index; events without frames are not for them.
create index if not exists events_by_index on {schema}.events (run_id, ((first_index + frames))) where frames > 0;
-- What no partition was made for: an accept never fails because upkeep is late.
create table if not exists {schema}.events_default partition of {schema}.events default;

create table if not exists {schema}.sessions (
    -- Names folders and checkpoints; the client's own id never does.
    session uuid primary key,
    session_id text not null unique,
    agent_id text not null,
    user_id text,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    runs bigint not null,
    last_run uuid not null
) with (fillfactor = 80);
create index if not exists sessions_by_user on {schema}.sessions (user_id, session);

-- A projection of events: runs::project rebuilds it.
create table if not exists {schema}.runs (
    run_id uuid primary key,
    session uuid not null,
    agent_id text not null,
    -- The kind of sandbox that it needs.
    kind text not null,
    status text not null,
    attempt int not null default 0,
    -- Whether a sandbox.requested stands unanswered.
    placed boolean not null default false,
    cancel_requested boolean not null default false,
    created_at timestamptz not null,
    started_at timestamptz,
    ended_at timestamptz
) with (fillfactor = 80);
create index if not exists runs_by_session on {schema}.runs (session, run_id);
create index if not exists runs_by_agent on {schema}.runs (agent_id, run_id);
create index if not exists runs_unended on {schema}.runs (session, run_id) where status in ('PENDING', 'RUNNING');

-- What a session has in hand.
create table if not exists {schema}.bindings (
    session uuid primary key,
    -- Runs of the session that have not ended, the kind of the first of them, and since when there are any.
    unended int not null,
    kind text not null,
    since timestamptz not null,
    epoch bigint not null default 0,
    claim_id uuid,
    run_id uuid,
    worker text,
    lease_until timestamptz,
    -- Whether the present claim was renewed, and how many before it were neither renewed nor used.
    renewed boolean not null default false,
    idle_claims int not null default 0,
    retry_at timestamptz,
    host text,
    sandbox text,
    checkpoint text,
    -- What the harness calls the conversation that is in it.
    conversation text,
    -- Hosts that may hold folders of the session.
    visited text[] not null default '{}'
) with (fillfactor = 60);
-- Living sandboxes first, then the oldest.
create index if not exists bindings_ready on {schema}.bindings ((sandbox is null), since) where unended > 0;

create table if not exists {schema}.hosts (
    host text primary key,
    kind text not null,
    label text not null,
    seen_at timestamptz not null
) with (fillfactor = 60);

create table if not exists {schema}.attachments (
    run_id uuid not null,
    n int not null,
    name text not null,
    media_type text not null,
    sha256 text not null,
    body bytea not null,
    primary key (run_id, n)
);

-- A key lives as long as its run.
create table if not exists {schema}.idempotency_keys (
    key text primary key,
    agent_id text not null,
    user_id text,
    -- As the client gave it: absent equals absent.
    session_id text,
    fingerprint bytea not null,
    run_id uuid not null
);
create index if not exists idempotency_keys_by_run on {schema}.idempotency_keys (run_id);

-- What a worker of that host still has to remove.
create table if not exists {schema}.erasures (
    session uuid not null,
    host text not null,
    at timestamptz not null,
    primary key (session, host)
);
-- A writer that lost its lease may add an event to a run while it is erased; upkeep removes that.
create table if not exists {schema}.erased_runs (
    run_id uuid primary key,
    at timestamptz not null
);

-- Whose log this is: a data folder belongs to one deployment, and a schema that was made anew is another one.
create table if not exists {schema}.deployment (
    one boolean primary key default true check (one),
    id uuid not null default gen_random_uuid()
);
insert into {schema}.deployment default values on conflict do nothing;

create table if not exists {schema}.migrations (
    version int primary key,
    at timestamptz not null default clock_timestamp()
);
