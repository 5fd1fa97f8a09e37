/** HTTP routes of the logo of an account. Owners set and remove it with a live key or in live mode; everyone reads it. */
import type { TSchema } from 'typebox';
import type { Caller } from '../accounts/account.ts';
import * as bodies from '../accounts/bodies.ts';
import { readLogo } from '../accounts/logo.ts';
import { logoOperation, removeLogoOperation, setLogoOperation } from '../accounts/logo-store.ts';
import { requestedChanges } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { answer, defineRoute, type RouteDefinition } from '../http/route.ts';
import { confirmationSchema } from '../http/validate.ts';
import type { Database } from '../storage/database.ts';

const route = <B extends TSchema | undefined = undefined>(
  definition: RouteDefinition<Caller, B, undefined>,
): RouteDefinition<Caller> => defineRoute(definition);

const NO_LOGO = refuse(failure('NOT_FOUND', { message: 'The account has no logo.' }));

export function logoRoutes({ database, clock }: { database: Database; clock: Clock }): RouteDefinition<Caller>[] {
  const common = { path: '/account/logo', tag: 'account', access: { auth: 'key' } } as const;
  return [
    route({
      ...common,
      method: 'GET',
      operationId: 'getLogo',
      summary: 'Get the logo of the account',
      description: 'Returns the image at the top of notices to users of the account. Returns 404 if there is none.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: bodies.logoSchema },
      handle: async ({ caller }) => {
        const logo = await database.execute(logoOperation, caller.account.id);
        return logo === null ? NO_LOGO : answer(bodies.logoBody(logo));
      },
    }),
    route({
      ...common,
      method: 'PUT',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'setLogo',
      summary: 'Set the logo of the account',
      description:
        'Replaces the image at the top of notices to users of the account. Notices contain the image itself, 40 pixels high. SVG is not accepted.',
      body: { schema: bodies.logoRequest },
      response: { status: 200, schema: bodies.logoSchema },
      handle: async (request) => {
        const image = readLogo(request.body.content);
        if (!image.ok) return image;
        const nowMs = clock.now();
        const logo = { accountId: request.caller.account.id, ...image.value, updatedAt: nowMs };
        await requestedChanges(database, request, nowMs).execute(setLogoOperation, logo);
        return answer(bodies.logoBody(logo));
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      access: { auth: 'key', role: 'owner', changesShared: true },
      operationId: 'removeLogo',
      summary: 'Remove the logo of the account',
      description: 'Notices then show the name of the account alone.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      handle: async (request) => {
        const changes = requestedChanges(database, request, clock.now());
        const isRemoved = await changes.execute(removeLogoOperation, { accountId: request.caller.account.id });
        return isRemoved ? answer({ message: 'Logo removed.' }) : NO_LOGO;
      },
    }),
  ];
}
