"""Resources of CoAP: conversion of requests to commands, and of messages to representations."""
