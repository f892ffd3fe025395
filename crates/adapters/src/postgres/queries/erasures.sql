select session from {schema}.erasures where host = $1 order by at limit 100
