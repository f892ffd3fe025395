"""Deploys infra/template.yaml with the built zips to an emulator, and prints the stack's outputs: `deploy.py TEMPLATE NAME=VALUE...`.

Where the emulator is says AWS_ENDPOINT_URL.
"""

import json
import os
import sys

import boto3
from samtranslator.yaml_helper import yaml_parse

BUCKET = "code"
template, parameters = sys.argv[1], dict(value.split("=", 1) for value in sys.argv[2:])
with open(template, encoding="utf-8") as file:
    resources = yaml_parse(file.read())


def with_numbers(value):
    """The emulator makes texts of numbers that come from parameters, and then cannot count with them."""
    if isinstance(value, list):
        return [with_numbers(item) for item in value]
    if not isinstance(value, dict):
        return value
    declared = resources["Parameters"].get(value.get("Ref"), {}) if len(value) == 1 else {}
    if declared.get("Type") == "Number":
        return int(parameters.get(value["Ref"], declared["Default"]))
    return {key: with_numbers(item) for key, item in value.items()}


resources["Resources"] = with_numbers(resources["Resources"])

s3 = boto3.client("s3")
s3.create_bucket(Bucket=BUCKET)
for name, resource in resources["Resources"].items():
    if resource["Type"] == "AWS::Serverless::Function":
        path = os.path.join(os.path.dirname(template), resource["Properties"]["CodeUri"])
        s3.upload_file(path, BUCKET, f"{name}.zip")
        resource["Properties"]["CodeUri"] = f"s3://{BUCKET}/{name}.zip"

stacks = boto3.client("cloudformation")
stacks.create_stack(
    StackName="sandlog",
    TemplateBody=json.dumps(resources),
    Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
    Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
)
stacks.get_waiter("stack_create_complete").wait(StackName="sandlog", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
stack = stacks.describe_stacks(StackName="sandlog")["Stacks"][0]
print(json.dumps({output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}))
