"""A signer out of process: a daemon that alone has the key, and the client that agents name in a setting.

    $ python -m examples.signer.daemon --key /srv/keys/agent.jwk --socket /run/signer/remote.sock --make
    $ export SIGNER_SOCKETS=/run/signer DATASET_AGENT_REMOTE_SIGNER=examples.signer.client:open_signer
    $ dataset-agent keys init && dataset-agent serve

It shows all that a KMS or an HSM needs of a client: a public key that is read once, a
signature that comes in bounded time or not at all, and no private half on this side.
"""
