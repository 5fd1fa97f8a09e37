/** A receiving server that does not answer final dots until it is released, and a delivery that sends to it; closed with the test. */
import type { TestContext } from 'node:test';
import { deliveryRig, type Rig } from './delivery-rig.ts';
import { type SmtpSink, smtpSink } from './smtp-sink.ts';

export interface HeldDots {
  sink: SmtpSink;
  rig: Rig;
  /** Answers all final dots, later ones immediately. */
  release(): void;
}

export async function heldDots(t: TestContext): Promise<HeldDots> {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const dot = async (): Promise<string> => {
    await held;
    return '250 2.0.0 ok';
  };
  const sink = await smtpSink({ script: { dot } });
  const rig = await deliveryRig({ relayPort: sink.port });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  return { sink, rig, release };
}
