/**
 * What an account triggers in its sandbox: another outcome of a message, and time that passes. Events and webhooks follow as usual.
 */
import type { Static } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { recordChangeOperation, requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { type Issue, invalid, refuse } from '../base/failure.ts';
import { createSandboxReset, type OutcomeSimulator } from '../delivery/delivery.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { named } from '../http/validate.ts';
import { type AdvanceDeps, createAdvance } from '../sandbox/advance.ts';
import { createSandboxClock } from '../sandbox/clock.ts';
import { itemBody, itemSchema, noSuchItem, sandboxOnly } from '../sandbox/item.ts';
import { parseSandboxOutcome, SANDBOX_OUTCOMES } from '../sandbox/outcomes.ts';
import { findInboxOperation } from '../sandbox/store.ts';
import type { Database } from '../storage/database.ts';

export interface SimulateRouteDeps {
  database: Database;
  clock: Clock;
  simulateOutcome: OutcomeSimulator;
  kinds: AdvanceDeps['kinds'];
  /** Wakes workers and followers. */
  nudge(): void;
}

type Request<B> = RouteRequest<Caller, B>;

const outcomeBody = named('SandboxOutcomeRequest', {
  outcome: Type.String({
    minLength: 1,
    maxLength: 500,
    description: `${SANDBOX_OUTCOMES.join(', ')}, in any case; or the SMTP reply of a simulated server, such as "452 4.2.2 mailbox full".`,
  }),
});

const MOST_SECONDS = 90 * 86_400;
const advanceBody = named('ClockAdvanceRequest', { seconds: Type.Integer({ minimum: 0, maximum: MOST_SECONDS }) });
const advanceAnswer = named('ClockAdvance', {
  now: Type.String({ description: 'The current time of this sandbox.' }),
  ran: Type.Integer({ description: 'Attempts of messages and webhooks that became due and were run.' }),
  remainingSeconds: Type.Optional(
    Type.Number({
      description:
        'The time that is left to advance. Present only if one call could not run everything that became due.',
    }),
  ),
});

const resetAnswer = named('ClockReset', {
  now: Type.String({ description: 'The real time, which the sandbox follows again.' }),
  removed: Type.Integer({ description: 'Messages that were removed.' }),
});

const OUTCOME_ISSUE: Issue = {
  field: 'outcome',
  message: `must be one of ${SANDBOX_OUTCOMES.join(', ')} in any case, or an SMTP reply such as 452 4.2.2 mailbox full`,
};

export function sandboxOutcomeRoutes(deps: SimulateRouteDeps): RouteDefinition<Caller>[] {
  const { database } = deps;
  const sandboxClock = createSandboxClock(deps);
  const advance = createAdvance(deps);
  const reset = createSandboxReset(deps);

  const playOutcome = async (request: Request<Static<typeof outcomeBody>>): Promise<RouteAnswer> => {
    const { caller } = request;
    if (caller.mode !== 'sandbox') return sandboxOnly;
    const outcome = parseSandboxOutcome(request.body.outcome);
    if (!outcome) return refuse(invalid([OUTCOME_ISSUE]));
    const key = { accountId: caller.account.id, messageId: request.params.id ?? '' };
    const find = async () =>
      database.execute(findInboxOperation, { ...key, nowMs: await sandboxClock.now(key.accountId) });
    if (!(await find())) return noSuchItem;
    const simulated = await deps.simulateOutcome(key, outcome);
    if (!simulated.ok) return simulated;
    await requestedChanges(database, request, deps.clock.now()).execute(recordChangeOperation, {
      action: 'message.simulate-outcome',
      resourceId: key.messageId,
      requested: { outcome: request.body.outcome },
    });
    deps.nudge();
    const row = await find();
    return row ? answer(itemBody(row, await sandboxClock.now(key.accountId))) : noSuchItem;
  };

  const moveClock = async (request: Request<Static<typeof advanceBody>>): Promise<RouteAnswer> => {
    const { caller, signal } = request;
    if (caller.mode !== 'sandbox') return sandboxOnly;
    const accountId = caller.account.id;
    await requestedChanges(database, request, deps.clock.now()).execute(recordChangeOperation, {
      action: 'sandbox-clock.advance',
      resourceId: null,
      requested: { seconds: request.body.seconds },
    });
    const moved = await advance({ accountId, byMs: request.body.seconds * 1000, signal });
    deps.nudge();
    if (!moved.ok) return moved;
    const { nowMs, ran, leftMs } = moved.value;
    return answer({ now: iso(nowMs), ran, ...(leftMs > 0 && { remainingSeconds: Math.ceil(leftMs / 1000) }) });
  };

  const resetClock = async (request: Request<undefined>): Promise<RouteAnswer> => {
    const { caller, signal } = request;
    if (caller.mode !== 'sandbox') return sandboxOnly;
    await requestedChanges(database, request, deps.clock.now()).execute(recordChangeOperation, {
      action: 'sandbox-clock.reset',
      resourceId: null,
      requested: {},
    });
    const done = await reset({ accountId: caller.account.id, signal });
    deps.nudge();
    return done.ok ? answer({ now: iso(deps.clock.now()), removed: done.value.removed }) : done;
  };

  return [
    defineRoute({
      method: 'POST',
      path: '/sandbox/inbox/:id/outcome',
      tag: 'sandbox',
      access: { auth: 'key' },
      operationId: 'simulateSandboxOutcome',
      summary: 'Simulate another outcome for a captured message',
      description:
        'A queued message is attempted now, with this outcome; a delivered one can bounce or get a complaint.',
      body: {
        schema: outcomeBody,
        furtherIssues: ({ outcome }) => (outcome === undefined || parseSandboxOutcome(outcome) ? [] : [OUTCOME_ISSUE]),
      },
      refusals: ['FORBIDDEN', 'CONFLICT'],
      response: { status: 200, schema: itemSchema },
      handle: playOutcome,
    }),
    defineRoute({
      method: 'POST',
      path: '/sandbox/clock/advance',
      tag: 'sandbox',
      access: { auth: 'key' },
      load: { waits: true },
      operationId: 'advanceSandboxClock',
      summary: 'Advance the clock of the sandbox',
      description:
        'Moves the clock of this account’s sandbox permanently. What is due in that time (attempts, expiry, schedules, webhooks with their retries) happens now and in order, before the response.',
      body: { schema: advanceBody },
      refusals: ['FORBIDDEN', 'CONFLICT'],
      response: { status: 200, schema: advanceAnswer },
      handle: moveClock,
    }),
    defineRoute({
      method: 'POST',
      path: '/sandbox/clock/reset',
      tag: 'sandbox',
      access: { auth: 'key' },
      load: { waits: true },
      operationId: 'resetSandboxClock',
      summary: 'Reset the clock of the sandbox to real time',
      description:
        'Removes all messages of this account’s sandbox first, with their events, webhook deliveries, received mail and statistics, because they carry times of the clock that was moved. Keys, webhooks, templates and suppressions stay.',
      refusals: ['FORBIDDEN', 'CONFLICT'],
      response: { status: 200, schema: resetAnswer },
      handle: resetClock,
    }),
  ];
}
