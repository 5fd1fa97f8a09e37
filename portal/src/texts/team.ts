/** Texts about an account’s team. */
export const team = {
  title: 'Team',
  lead: 'Manage who has access to this account.',
  email: 'Email',
  role: 'Role',
  roleOf: (email: string) => `Role of ${email}`,
  status: 'Status',
  twoFactor: 'Second factor',
  app: 'App',
  passkey: 'Passkey',
  noFactor: 'None',
  lastSignIn: 'Last sign-in',
  never: 'Never',
  you: 'you',
  joined: 'Joined',
  none: 'No team members',
  removeOf: (email: string) => `Remove ${email}`,
  removed: (email: string) => `${email} removed`,
  changed: (email: string, role: string) => `${email} now has the role ${role}`,
  lastOwner: 'An account needs at least one owner.',
  onlyOwners: 'Only owners can manage team members.',
  onlyLive: 'Team members have access to Live and Sandbox. Switch to Live to manage them.',
};

export const roles = {
  title: 'Roles',
  viewer: { name: 'Viewer', may: 'Read-only access to everything.' },
  member: {
    name: 'Member',
    may: 'Can send emails, and manage messages, templates, webhooks, domains, and suppressions.',
  },
  owner: { name: 'Owner', may: 'Full access, including API keys, SMTP credentials, team, size limit, and settings.' },
};

export const invitation = {
  open: 'Invite member',
  title: 'Invite team member',
  email: 'Email',
  emailHint: 'They receive an invitation by email. Its link expires in 7 days.',
  role: 'Role',
  submit: 'Send invitation',
  sent: (email: string) => `Invitation sent to ${email}`,
  added: (email: string) => `${email} added to this account`,
  linkTitle: (email: string) => `Share this invite link with ${email}`,
  linkLead:
    'Postrider can’t send the invitation by email, because no domain is verified yet. The link works once and expires in 7 days. Anyone with the link can join.',
  link: 'Invitation link',
  close: 'Done',
};
