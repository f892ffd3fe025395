"""From a SAM template to what CloudFormation gets, without an account: `translate.py TEMPLATE > JSON`."""

import json
import sys

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

with open(sys.argv[1], encoding="utf-8") as file:
    template = yaml_parse(file.read())
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::Serverless::Function":
        # A local file becomes an object to be fetched, as `sam package` would have it.
        resource["Properties"]["CodeUri"] = "s3://bucket/key"
session = boto3.Session(region_name="us-east-1")
json.dump(Translator({}, Parser(), boto_session=session).translate(template, {}), sys.stdout, indent=1)
