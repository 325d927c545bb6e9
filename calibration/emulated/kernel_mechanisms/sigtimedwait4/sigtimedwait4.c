// SPDX-License-Identifier: MIT OR GPL-2.0
/* sigtimedwait4: take many queued signals by one call.
 *
 *   queue of signals ──dequeue_signal(), the lock taken once──► batch ──► siginfo_t[] of the caller
 *                                                               sleep while there is none
 *
 * An ioctl of a device and not a system call, so that no kernel has to be changed; the way through
 * ioctl costs some tens of instructions more.
 * A batch is copied out without the queue's lock. Only the first may be waited for.
 *
 * Source: Provos, Lever, Tweedie 2000, "Analyzing the overload behavior of a simple web server",
 * section 3 and appendix. Other than there, a negative timeout is the only one without end.
 */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "sigtimedwait4.h"

#define BATCH_MAX 64

static int take(sigset_t *blocked, kernel_siginfo_t *batch, int n_max)
{
    enum pid_type type;
    int n = 0;

    while (n < n_max && dequeue_signal(current, blocked, &batch[n], &type)) {
        n++;
    }
    return n;
}

/* Called and returns with the lock of the signals held; what is awaited is unblocked meanwhile, so
 * that its arrival wakes the task up.
 */
static int sleep_until_signal(sigset_t *blocked, s64 timeout_ns)
{
    ktime_t timeout = timeout_ns;
    int left;

    current->real_blocked = current->blocked;
    sigandsets(&current->blocked, &current->blocked, blocked);
    recalc_sigpending();
    spin_unlock_irq(&current->sighand->siglock);
    __set_current_state(TASK_INTERRUPTIBLE);
    left = schedule_hrtimeout_range(timeout_ns < 0 ? NULL : &timeout, current->timer_slack_ns,
                                    HRTIMER_MODE_REL);
    spin_lock_irq(&current->sighand->siglock);
    current->blocked = current->real_blocked;
    sigemptyset(&current->real_blocked);
    recalc_sigpending();
    return left;
}

/* The layout of both is the same up to the padding of the user's. */
static int copy_out(siginfo_t __user *infos, const kernel_siginfo_t *batch, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        char __user *padding = (char __user *)&infos[i] + sizeof(batch[i]);

        if (copy_to_user(&infos[i], &batch[i], sizeof(batch[i])) ||
            clear_user(padding, sizeof(siginfo_t) - sizeof(batch[i]))) {
            return -EFAULT;
        }
    }
    return 0;
}

static long sigtimedwait4(struct file *file, const struct sigtimedwait4_call *call)
{
    kernel_siginfo_t *batch = file->private_data;
    siginfo_t __user *infos = u64_to_user_ptr(call->infos);
    sigset_t blocked;
    int n_max, n, n_taken, interrupted = 0;

    if (call->n_max == 0) {
        return -EINVAL;
    }
    n_max = min_t(u64, call->n_max, INT_MAX);
    siginitset(&blocked, 0);
    blocked.sig[0] = ~call->awaited | sigmask(SIGKILL) | sigmask(SIGSTOP);

    for (n = 0; n < n_max; n += n_taken) {
        int n_wanted = min(n_max - n, BATCH_MAX);

        spin_lock_irq(&current->sighand->siglock);
        n_taken = take(&blocked, batch, n_wanted);
        if (n_taken == 0 && n == 0 && call->timeout_ns != 0) {
            interrupted = sleep_until_signal(&blocked, call->timeout_ns);
            n_taken = take(&blocked, batch, n_wanted);
        }
        spin_unlock_irq(&current->sighand->siglock);
        if (copy_out(infos + n, batch, n_taken)) {
            return -EFAULT;
        }
        if (n_taken < n_wanted) {
            return n + n_taken ? n + n_taken : interrupted ? -EINTR : -EAGAIN;
        }
    }
    return n;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
    struct sigtimedwait4_call call;

    if (command != SIGTIMEDWAIT4) {
        return -ENOTTY;
    }
    if (copy_from_user(&call, (void __user *)argument, sizeof(call))) {
        return -EFAULT;
    }
    return sigtimedwait4(file, &call);
}

/* The batch is of the open file: a task that shares its file with others must not call at once. */
static int device_open(struct inode *inode, struct file *file)
{
    file->private_data = kcalloc(BATCH_MAX, sizeof(kernel_siginfo_t), GFP_KERNEL);
    return file->private_data ? nonseekable_open(inode, file) : -ENOMEM;
}

static int device_release(struct inode *inode, struct file *file)
{
    kfree(file->private_data);
    return 0;
}

static const struct file_operations device_operations = {
    .owner = THIS_MODULE,
    .open = device_open,
    .release = device_release,
    .unlocked_ioctl = device_ioctl,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "sigtimedwait4",
    .fops = &device_operations,
    .mode = 0666,
};

module_misc_device(device);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Take many queued signals by one call");
