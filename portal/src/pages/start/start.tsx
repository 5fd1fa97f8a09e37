/** Getting started: send and see one message, and a checklist for live email. The same page in both modes. */
import { Page } from '../../parts/page.tsx';
import { useScope } from '../../scope.ts';
import { start } from '../../texts/start.ts';
import { Arrivals } from './arrivals.tsx';
import { AccountChecklist, ServiceChecklist } from './checklist.tsx';
import { InMode } from './in-mode.tsx';
import { Examples, SendOne } from './send-one.tsx';
import classes from './start.module.css';

export function StartPage() {
  const { person } = useScope();
  return (
    <Page title={start.title} lead={start.lead}>
      <div className={classes.columns}>
        <div className={classes.column}>
          <InMode mode="sandbox">
            <SendOne />
            <Arrivals />
            <Examples />
          </InMode>
        </div>
        <div className={classes.column}>
          <InMode mode="live">
            <AccountChecklist />
          </InMode>
          {person.isOperator && <ServiceChecklist />}
        </div>
      </div>
    </Page>
  );
}
