/*
 * The table of normal quantiles.
 *
 * Newton steps on the distribution function, from the middle outward, with a series near zero and a
 * continued fraction in the tail. Only + - * / sqrt are used, which every host rounds alike; libm's
 * exp and erfc are not promised to. This file is compiled without contraction for the same reason.
 */
#include <math.h>
#include <pthread.h>
#include <stddef.h>

#include "worker/generate.h"

static float quantiles[GK_QUANTILES];
static pthread_once_t quantiles_once = PTHREAD_ONCE_INIT;

/* e^-y for 0 <= y < 20: the argument halved six times, a series, squared back. */
static double exp_minus(double y)
{
    double x = -y / 64, term = 1, sum = 1;
    for (int i = 1; i < 14; i++) {
        term *= x / i;
        sum += term;
    }
    for (int i = 0; i < 6; i++) {
        sum *= sum;
    }
    return sum;
}

/* Upper tail of the standard normal, and its density, for x >= 0. */
static double tail(double x, double *density_out)
{
    double density = 0.39894228040143267794 * exp_minus(x * x / 2);
    *density_out = density;
    if (x < 2.5) {
        double term = x, sum = x;
        for (int i = 3; i < 60 && term > sum * 1e-17; i += 2) {
            term *= x * x / i;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    double fraction = x;
    for (int i = 60; i > 0; i--) {
        fraction = x + i / fraction;
    }
    return density / fraction;
}

static void make_quantiles(void)
{
    double x = 0;
    for (int i = GK_QUANTILES / 2; i < GK_QUANTILES; i++) {
        double want = (GK_QUANTILES - i - 0.5) / GK_QUANTILES; /* of the upper tail */
        for (int step = 0; step < 3; step++) {
            double density = 0;
            double move = (tail(x, &density) - want) / density;
            /* Halley's correction: the second derivative of the tail is x times the density. */
            x += move / (1 - move * x / 2);
        }
        quantiles[i] = (float)x;
        quantiles[GK_QUANTILES - 1 - i] = -(float)x;
    }
}

const float *gk_normal_quantiles(void)
{
    (void)pthread_once(&quantiles_once, make_quantiles); /* fails only for a bad argument */
    return quantiles;
}
