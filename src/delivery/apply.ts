/**
 * Applies the reports of attempts, shared pauses and DNS answers: updates the registry of destinations and the queue, and settles messages.
 * This is the only place that applies results: nothing that it calls calls it back.
 */
import type { Engine } from '../work/work.ts';
import type { Connections } from './attempt/connections.ts';
import { type AttemptReport, type AttemptResult, type ClassifiedResult, conclude } from './attempt/pass.ts';
import type { BlockedNotices } from './destinations/blocked-notice.ts';
import type { Destination, Registry } from './destinations/registry.ts';
import type { SharedChange, SharedPauses } from './destinations/shared-pauses.ts';
import type { Admission, Admissions } from './queue/admission.ts';
import type { DeliveryItem } from './queue/delivery-item.ts';
import type { Schedule } from './queue/schedule.ts';
import type { Window } from './queue/window.ts';
import type { Results } from './record/results.ts';
import type { AttemptFacts, Settlement } from './record/settle.ts';
import type { MxSets } from './routing/mx-sets.ts';

/** Maximum number of waiting messages that fail with one failed connection. */
const MAX_SIBLINGS = 2_000;

export interface ApplyDeps {
  engine: Engine<DeliveryItem, Settlement>;
  registry: Registry;
  window: Window;
  schedule: Schedule;
  admissions: Admissions;
  connections: Pick<Connections, 'count'>;
  sets: Pick<MxSets, 'areAlike' | 'destinationOf'>;
  pauses: Pick<SharedPauses, 'changed' | 'takeChanges'>;
  results: Results;
  /** Notifies the operators of destinations that block this host. */
  notifyBlocked: BlockedNotices;
}

export class Apply {
  readonly #deps: ApplyDeps;

  constructor(deps: ApplyDeps) {
    this.#deps = deps;
  }

  /** Settles each message of an attempt or puts it back, and applies its signal to the messages that wait for the destination. */
  report(destination: Destination, report: AttemptReport): void {
    const { registry, schedule } = this.#deps;
    const { signal, results, startedMs, elapsedMs } = report;
    if (signal.kind === 'answered') registry.measured(destination, elapsedMs / results.length);
    const change = isOfDomainAlone(destination, report) ? 'none' : registry.report(destination, signal, startedMs);
    if (change !== 'none') void this.#share(destination);
    for (const result of results) this.#result(destination, result);
    if (change === 'began') this.#deferWaiting(destination);
    if (signal.kind === 'unreachable') this.#failSiblings(destination, results[0]);
    if (signal.kind !== 'nothing') schedule.changed(destination);
  }

  /** Settles recipients that are done while others of their attempt continue. */
  ended(destination: Destination, results: readonly AttemptResult[]): void {
    for (const result of results) if (result.kind === 'classified') this.#ended(destination, result);
  }

  /** Reports an accepted envelope; returns whether more slots may open. After a pause only a complete transaction counts. */
  envelopeAccepted(destination: Destination, startedMs: number): boolean {
    const { registry, schedule } = this.#deps;
    if (destination.pause || registry.isProven(destination.key)) return false;
    registry.report(destination, { kind: 'answered', accepted: false }, startedMs);
    schedule.changed(destination);
    return true;
  }

  /** Routes a claimed message; returns its settlement if it is not to be attempted. */
  claimed(item: DeliveryItem): Settlement | undefined {
    const { admissions, results } = this.#deps;
    const admission = admissions.admitClaimed(item);
    this.#redirect(item, admission);
    return results.withoutAttempt(item, admission);
  }

  /** Moves waiting mail of the domain to the destination of its hosts, or defers it if that destination is paused. */
  hostsChanged(domain: string, before: string): void {
    const { registry, schedule, sets, window } = this.#deps;
    const now = sets.destinationOf(domain);
    if (now !== before) for (const item of window.move(domain, { from: before, to: now })) this.#admitWaiting(item);
    schedule.changed(registry.of(now));
  }

  /** Applies pauses that other nodes started; returns the pauses that the operator ended. */
  sharedChanges(): Extract<SharedChange, { kind: 'resumed' }>[] {
    return this.#deps.pauses.takeChanges().filter((change) => {
      if (change.kind === 'began') this.#deferWaiting(change.destination);
      return change.kind === 'resumed';
    });
  }

  /** Writes a pause that started or ended here for all nodes; operators are notified of a block once it is written. */
  async #share(destination: Destination): Promise<void> {
    const { pauses, notifyBlocked } = this.#deps;
    await pauses.changed(destination);
    if (destination.pause?.blockedMs !== undefined) await notifyBlocked({ immediately: true });
  }

  #result(destination: Destination, result: AttemptResult): void {
    const { engine, window } = this.#deps;
    const { item } = result;
    if (item.state !== 'running') return;
    switch (result.kind) {
      case 'classified':
        this.#ended(destination, result);
        return;
      case 'settlement':
        engine.settle(item, result.settlement);
        return;
      case 'released':
        engine.release(item);
        return;
      case 'continues':
        window.redirect(item, result.hop);
        engine.putBack(item);
        return;
      case 'put back':
        item.returns += 1;
        engine.putBack(item);
    }
  }

  #ended(destination: Destination, result: ClassifiedResult): void {
    const { engine, registry, results } = this.#deps;
    const { item, outcome, facts } = result;
    registry.replied(destination, { outcome, host: facts.host });
    engine.settle(item, results.of(item, conclude(result)));
  }

  #redirect(item: DeliveryItem, admission: Admission): void {
    if (admission.kind === 'via') this.#deps.window.redirect(item, admission.hop);
  }

  /** Redirects a waiting message if its destination is paused, or defers it to the end of the pause. */
  #admitWaiting(item: DeliveryItem): void {
    const { admissions, engine, results } = this.#deps;
    const admission = admissions.admit(item);
    this.#redirect(item, admission);
    if (admission.kind === 'wait') engine.settle(item, results.defer(item, admission.pause));
  }

  #deferWaiting(destination: Destination): void {
    for (const item of this.#deps.schedule.waitingAt(destination)) this.#admitWaiting(item);
  }

  /** A failed connection counts for all messages that wait for the same hosts: they would have used the same connection. */
  #failSiblings(destination: Destination, first: AttemptResult | undefined): void {
    const { engine, schedule, results, connections, sets } = this.#deps;
    if (first?.kind !== 'classified') return;
    const { domain, job } = first.item;
    if (connections.count(destination.key, domain) > 0) return;
    // A missing domain is final for some accounts and temporary for others (missing-domain.ts).
    const isForAll = first.outcome.kind !== 'permanent';
    // A DNS answer about one domain says nothing about other domains.
    const isSame = (item: DeliveryItem): boolean =>
      (item.domain === domain || (first.facts.host !== null && sets.areAlike(item.domain, domain))) &&
      (isForAll || item.job.accountId === job.accountId);
    for (const item of schedule.waitingAt(destination, MAX_SIBLINGS, isSame)) {
      if (item.quarantined || !engine.holds(item)) continue;
      engine.settle(item, results.of(item, conclude({ ...first, item, facts: sinceClaim(item, first.facts) })));
    }
  }
}

/** Whether the failure is only about the domain, because the DNS did not answer for it. */
function isOfDomainAlone({ key }: Destination, { signal, results: [first] }: AttemptReport): boolean {
  return (
    signal.kind === 'unreachable' &&
    first?.kind === 'classified' &&
    first.facts.host === null &&
    first.item.domain !== key
  );
}

/** Returns the facts of a connection that began before the message was claimed: for the message they begin with its claim. */
function sinceClaim({ claimedMs }: DeliveryItem, facts: AttemptFacts): AttemptFacts {
  const missedMs = Math.max(0, claimedMs - facts.startedAtMs);
  return {
    ...facts,
    startedAtMs: facts.startedAtMs + missedMs,
    durationMs: Math.max(0, facts.durationMs - missedMs),
  };
}
