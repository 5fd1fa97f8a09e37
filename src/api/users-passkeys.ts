/** Passkeys: adding one to the logged-in user, listing and removing them, and logging in with one. */
import type { TProperties } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { iso, isoOrNull } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { pageFields, pageOfWhole } from '../http/paging.ts';
import { answer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, named } from '../http/validate.ts';
import * as bodies from '../users/bodies.ts';
import { type Passkey, passkeysOperation, removePasskeyOperation } from '../users/factor-store.ts';
import { createPasskeys } from '../users/passkeys.ts';
import { changesOf, type SignInService } from '../users/sign-in.ts';
import { foreignRefusal, SMALL_BODY, signedInAnswer, type UserRouteDeps, userRoute } from '../users/user-route.ts';
import { factorRefusal, requiredRefusal } from './users-factors.ts';

/** Read by browsers, as the WebAuthn specification defines. */
const optionsSchema = (title: string, description: string) =>
  Type.Unsafe<Record<string, unknown>>({ title, type: 'object', additionalProperties: true, description });
const creationOptions = optionsSchema(
  'PasskeyCreationOptions',
  'For PublicKeyCredential.parseCreationOptionsFromJSON() and navigator.credentials.create().',
);
const requestOptions = optionsSchema(
  'PasskeyRequestOptions',
  'For PublicKeyCredential.parseRequestOptionsFromJSON() and navigator.credentials.get().',
);

const base64url = (maxLength: number) =>
  Type.String({ pattern: '^[A-Za-z0-9_-]+$', phrase: 'must be Base64url without padding', maxLength });
const CREDENTIAL_ID = base64url(1_364);
/** The result of toJSON() of a credential. Browsers add more fields, which are not used. */
const credentialOf = <P extends TProperties>(title: string, description: string, response: P) =>
  Type.Object(
    {
      id: CREDENTIAL_ID,
      rawId: CREDENTIAL_ID,
      type: Type.Literal('public-key'),
      response: Type.Object({ clientDataJSON: base64url(SMALL_BODY), ...response }, { additionalProperties: true }),
    },
    { title, description, additionalProperties: true },
  );
const registration = credentialOf(
  'PasskeyRegistration',
  'The result of toJSON() of the credential that navigator.credentials.create() returned.',
  {
    attestationObject: base64url(SMALL_BODY),
    transports: Type.Optional(Type.Array(Type.String({ pattern: '^[a-z0-9-]+$', maxLength: 32 }), { maxItems: 16 })),
  },
);
const assertion = credentialOf(
  'PasskeyAssertion',
  'The result of toJSON() of the credential that navigator.credentials.get() returned.',
  {
    authenticatorData: base64url(SMALL_BODY),
    signature: base64url(SMALL_BODY),
    userHandle: Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength: 100 })),
  },
);
const passkeyRequest = named('PasskeyRequest', {
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  credential: registration,
});
const passkeySignIn = named('PasskeySignIn', { credential: assertion });
const passkeySchema = named('Passkey', {
  passkeyId: Type.String(),
  name: Type.String(),
  createdAt: Type.String({ format: 'date-time' }),
  lastUsedAt: Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' }),
});

function passkeyBody({ id, name, createdAt, lastUsedAt }: Passkey): Record<string, unknown> {
  const used = isoOrNull(lastUsedAt);
  return { passkeyId: id, name, createdAt: iso(createdAt), lastUsedAt: used };
}

export function passkeyRoutes(deps: UserRouteDeps, signIn: SignInService): RouteDefinition<Caller>[] {
  const passkeys = createPasskeys(deps, signIn);
  return [...ownPasskeyRoutes(deps, passkeys), ...passkeySignInRoutes(deps, passkeys)];
}

type Passkeys = ReturnType<typeof createPasskeys>;

function ownPasskeyRoutes(deps: UserRouteDeps, passkeys: Passkeys): RouteDefinition<Caller>[] {
  const { database } = deps;
  const common = { tag: 'session', access: { auth: 'user' } } as const;
  return [
    userRoute({
      ...common,
      method: 'GET',
      path: '/user/passkeys',
      operationId: 'listPasskeys',
      summary: 'List your passkeys, newest first',
      description: 'Returns the name of each passkey and when it was last used.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(passkeySchema) },
      handle: async (request) =>
        pageOfWhole(request, {
          rows: await database.execute(passkeysOperation, request.caller.user.id),
          order: 'descending',
          shape: ['number', 'string'],
          keyOf: ({ createdAt, id }) => [createdAt, id],
          show: passkeyBody,
        }),
    }),
    userRoute({
      ...common,
      method: 'POST',
      path: '/user/passkeys/options',
      operationId: 'offerPasskey',
      summary: 'Start adding a passkey',
      description: 'Returns the options for the browser, valid for five minutes and one use.',
      response: { status: 200, schema: creationOptions },
      handle: async ({ caller }) =>
        (await factorRefusal(deps, caller)) ?? answer(await passkeys.addOptions(caller.user)),
    }),
    userRoute({
      ...common,
      method: 'POST',
      path: '/user/passkeys',
      body: { schema: passkeyRequest, maxBytes: SMALL_BODY },
      operationId: 'addPasskey',
      summary: 'Finish adding a passkey',
      description: 'The user can then sign in with the passkey, without password and code.',
      response: { status: 201, schema: passkeySchema },
      refusals: ['CONFLICT'],
      handle: async (request) => {
        const { caller, body } = request;
        const refusal = await factorRefusal(deps, caller);
        if (refusal !== undefined) return refusal;
        const added = await passkeys.add(caller, { ...body, name: body.name ?? 'Passkey' }, request);
        deps.sessions.evictUser(caller.user.id);
        return added.ok ? answer(passkeyBody(added.value)) : added;
      },
    }),
    userRoute({
      ...common,
      method: 'DELETE',
      path: '/user/passkeys/:id',
      operationId: 'removePasskey',
      summary: 'Remove a passkey',
      description:
        'The user can no longer sign in with it. Existing sessions continue: GET /sessions lists them. Returns 409 if it is your last second factor and an account requires one.',
      response: { status: 200, schema: confirmationSchema },
      refusals: ['NOT_FOUND', 'CONFLICT'],
      handle: async (request) => {
        const { user } = request.caller;
        const refusal = await factorRefusal(deps, request.caller);
        if (refusal !== undefined) return refusal;
        const id = request.params.id ?? '';
        const removed = await changesOf(deps, user, request).execute(removePasskeyOperation, { id, userId: user.id });
        deps.sessions.evictUser(user.id);
        if (typeof removed === 'object') return requiredRefusal(removed.requiredBy);
        return removed === 'removed'
          ? answer({ message: 'Passkey removed.' })
          : refuse(failure('NOT_FOUND', { message: 'You have no passkey with this id.' }));
      },
    }),
  ];
}

function passkeySignInRoutes(deps: UserRouteDeps, passkeys: Passkeys): RouteDefinition<Caller>[] {
  const common = { tag: 'session', access: { auth: 'none' }, method: 'POST' } as const;
  return [
    userRoute({
      ...common,
      path: '/session/passkey/options',
      operationId: 'offerPasskeySignIn',
      summary: 'Start a sign-in with a passkey',
      description:
        'Returns the options for the browser, which offers its passkeys for this service. Valid for five minutes and one use.',
      response: { status: 200, schema: requestOptions },
      handle: () => answer(passkeys.signInOptions()),
    }),
    userRoute({
      ...common,
      path: '/session/passkey',
      operationId: 'signInWithPasskey',
      summary: 'Sign in with a passkey',
      description: 'Sets the cookie like POST /session. A passkey is both factors, so no code is required.',
      body: { schema: passkeySignIn, maxBytes: SMALL_BODY },
      response: { status: 200, schema: bodies.signedInSchema },
      refusals: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'],
      handle: async (request) => {
        const foreign = foreignRefusal(request, deps.baseUrl);
        if (foreign !== undefined) return foreign;
        const signedIn = await passkeys.signIn(request.body.credential, request);
        return signedIn.ok ? signedInAnswer(deps, signedIn.value, request) : signedIn;
      },
    }),
  ];
}
