select name, media_type, sha256, body from {schema}.attachments where run_id = $1 order by n
