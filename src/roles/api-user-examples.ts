/** Examples of users and sessions, for /openapi.json. */
import { ANN, DAY_BEFORE, ids, TIME } from './api-example-ids.ts';

const user = 'usr_2zAb0DCdEfGhIjKlMnOpQr';
const session = 'ses_2zAb0ECdEfGhIjKlMnOpQr';
const password = 'correct horse battery staple';
const token = 'Zt4k0mPq7Yw2Rr9sVx1Ub6Nc3Ld8Fg5Hj0aEeTtYyUu';

const member = {
  userId: user,
  email: ANN,
  role: 'owner',
  status: 'active',
  totp: true,
  passkeys: 1,
  createdAt: DAY_BEFORE,
};

const credentialOf = (response: object) => ({
  id: 'AbC0-dEf',
  rawId: 'AbC0-dEf',
  type: 'public-key',
  response: { clientDataJSON: 'eyJ0eXBlIjoi', ...response },
  clientExtensionResults: {},
});
const passkeyRegistration = credentialOf({ attestationObject: 'o2NmbXRkbm9uZQ', transports: ['internal'] });
const passkeyAssertion = credentialOf({
  authenticatorData: 'SZYN5YgOjGh0NBcP',
  signature: 'MEUCIQCx0aFj',
  userHandle: 'dXNyXzJ6QWI',
});

export const USER_EXAMPLES: Record<string, unknown> = {
  SignInRequest: { email: ANN, password, code: '287082' },
  PasswordResetRequest: { email: ANN },
  PasswordRequest: { token, password },
  SignedInUser: {
    userId: user,
    email: ANN,
    isOperator: false,
    sessionId: session,
    twoFactor: { totp: true, recoveryCodes: 9, passkeys: 1 },
    accounts: [
      { accountId: ids.account, name: 'Shop', role: 'owner', plan: 'paid', status: 'active', twoFactorRequired: true },
    ],
  },
  Session: {
    sessionId: session,
    current: true,
    createdAt: TIME,
    lastSeenAt: TIME,
    expiresAt: '2026-12-04T09:44:00.123Z',
    address: '192.0.2.80',
    userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  },
  User: { ...member, lastSignInAt: TIME },
  InvitedUser: {
    ...member,
    role: 'member',
    status: 'invited',
    totp: false,
    passkeys: 0,
    lastSignInAt: null,
    inviteUrl: `https://mail.example.com/welcome#token=${token}`,
  },
  SavedFilter: {
    savedFilterId: 'flt_2zAb0FCdEfGhIjKlMnOpQr',
    list: 'messages',
    name: 'Bounced receipts',
    query: { status: 'bounced', tags: 'receipt', range: '7d' },
    shared: true,
    createdAt: TIME,
  },
  SaveFilterRequest: {
    list: 'messages',
    name: 'Bounced receipts',
    query: { status: 'bounced', tags: 'receipt', range: '7d' },
    shared: true,
  },
  ChangeSavedFilterRequest: { name: 'Bounced receipts this week' },
  InvitationRequest: { email: ANN, role: 'member' },
  RoleRequest: { role: 'viewer' },
  TwoFactorRequirement: { required: true },
  Notices: {
    yours: { sendingProtection: true, quotas: true, domains: true, webhooks: false },
    kinds: [
      { kind: 'sendingProtection', sentTo: 'users', recipients: [{ userId: user, email: ANN }] },
      { kind: 'quotas', sentTo: 'users', recipients: [{ userId: user, email: ANN }] },
      { kind: 'domains', sentTo: 'users', recipients: [{ userId: user, email: ANN }] },
      { kind: 'webhooks', sentTo: 'none', recipients: [] },
    ],
  },
  NoticesRequest: { webhooks: false },
  TotpOffer: {
    secret: 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
    otpauthUrl: 'otpauth://totp/Postrider:ann%40example.com?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Postrider',
  },
  TotpRequest: { code: '287082' },
  PasskeyCreationOptions: {
    challenge: 'pX2c…',
    rp: { name: 'Postrider', id: 'mail.example.com' },
    user: { id: 'dXNyXzJ6QWI', name: ANN, displayName: ANN },
    pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
  },
  PasskeyRequestOptions: { challenge: 'pX2c…', rpId: 'mail.example.com', userVerification: 'required' },
  PasskeyRequest: { name: 'Laptop', credential: passkeyRegistration },
  PasskeySignIn: { credential: passkeyAssertion },
  Passkey: { passkeyId: 'AbC0-dEf', name: 'Laptop', createdAt: DAY_BEFORE, lastUsedAt: TIME },
  RecoveryCodes: { recoveryCodes: ['k3v7a-q2xme', 'b6zrt-5hwpn'] },
};
