/** The start of what a receiver answered, in lines that break: pages of errors come in one line. */
import { Copy } from '../../parts/copy.tsx';
import classes from './webhooks.module.css';

export function AnswerStart({ text, label }: { text: string; label: string }) {
  return (
    <div className={classes.answer}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1) */}
      <section tabIndex={0} aria-label={label}>
        <pre>{text}</pre>
      </section>
      <Copy value={text} />
    </div>
  );
}
