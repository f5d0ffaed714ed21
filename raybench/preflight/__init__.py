"""Is a host right for multi-node training: what a probe said of it, judged. Text in, verdicts out; nothing is run here.

Standard library only: the playbook's last step imports it on whatever Python drives Ansible.
"""
