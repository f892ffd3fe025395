create schema bench;
create table bench.sessions (id uuid primary key, agent text, at timestamptz);
create table bench.runs (id uuid primary key, session uuid, status text, at timestamptz);
create table bench.events (run_id uuid, seq int, type text, data jsonb, primary key (run_id, seq));
create table bench.plain (client int, seq int, data jsonb, primary key (client, seq));
create table bench.appended (client int primary key, run_id uuid);
grant all on schema bench to public;
grant all on all tables in schema bench to public;
