/** The start of an endpoint's response with line breaks: error pages often have one line. */
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
