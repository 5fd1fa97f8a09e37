/** A delivery to a relay on loopback, which is a sink; both are closed with the test. */
import type { TestContext } from 'node:test';
import { deliveryRig, type Rig, type RigOptions } from './delivery-rig.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from './smtp-sink.ts';

export async function relayRig(
  t: TestContext,
  sinkOptions: SinkOptions = {},
  rigOptions: RigOptions = {},
): Promise<{ sink: SmtpSink; rig: Rig }> {
  const sink = await smtpSink(sinkOptions);
  const rig = await deliveryRig({ relayPort: sink.port, ...rigOptions });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  return { sink, rig };
}
