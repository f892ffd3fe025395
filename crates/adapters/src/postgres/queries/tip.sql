select seq + 1, first_index + frames from {schema}.events where run_id = $1 order by seq desc limit 1
